-- Highest bid of every ten seconds.
SELECT b.auction, b.price, b.bidder, b.date_time, b.extra
FROM bid b
JOIN (
    SELECT max(price) AS price, window.start AS started, window.end AS ended
    FROM bid
    GROUP BY window(date_time, '10 seconds')
) m ON b.price = m.price
WHERE b.date_time >= m.started AND b.date_time < m.ended
