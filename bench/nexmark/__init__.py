"""Nexmark: a stream of people, auctions and bids made from a seed, and its queries; for the tests and case n.

Of 50 events one is a person, three are auctions and 46 are bids. Half of the bids are on the auction that is hot just
then, three quarters of the auctions are one seller's and three quarters of the bids one bidder's, for a while; the
others are spread over the last hundred auctions and the last thousand people. The queries are those of the public
benchmark in Spark's dialect, but for q12, which asks for the time of processing: no function of the rows, and so no
view. Where theirs leave open which of several equal rows comes first, the time of the bid decides.
"""
