-- Average selling price by seller: of the last ten auctions, at each auction.
SELECT seller, id, avg(final) OVER (
    PARTITION BY seller ORDER BY date_time ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
) AS average
FROM (
    SELECT a.seller, a.id, b.price AS final, b.date_time,
        row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price DESC, b.date_time) AS place
    FROM auction a, bid b
    WHERE a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
) q
WHERE place <= 1
