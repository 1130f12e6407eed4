"""JSON read as columns: ``text`` says what is read, ``scan`` finds it, ``values`` and ``parts`` make columns of it.

It is a reader of altneu's own because it does not decode documents: a scan checks each text and finds the members that
somebody reads, and a column is then made of all its spans at once. A failure is one row's, whatever the others hold;
numbers and decimals are exact; nested values may be read as their text. msgspec's typed decoders and orjson take 0.5
to 2.4 times its CPU time and do not read all of that: a number beyond 64 bits, or a decimal with a digit too many,
ends the whole batch. Where msgspec only finds the members and these modules read them, the columns are the same, at 1.6
(1,000 envelopes) to 2.8 times (100,000) the CPU time, and half of ``scan`` would go (``python -m bench --case p``).
"""
