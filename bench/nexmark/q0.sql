-- Pass through: what moving the rows costs.
SELECT auction, bidder, price, date_time, extra
FROM bid
