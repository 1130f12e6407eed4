-- Auction top ten: its highest bids with their places, the earlier of two first.
SELECT *
FROM (
    SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS place
    FROM bid
) q
WHERE place <= 10
