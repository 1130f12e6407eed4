"""What may happen to a running altneu, done to it on purpose: ``python -m faults``, or ``make faults``.

Every run ends with the same question: opened again and given the rest of the same input, does it show what an
undisturbed run shows? All that is random comes from the seed.
"""
