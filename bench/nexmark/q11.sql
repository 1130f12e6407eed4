-- User sessions: how many bids a user makes without ten seconds of rest.
WITH marked AS (
    SELECT bidder, date_time,
        CASE WHEN unix_micros(date_time) - unix_micros(lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time))
            < 10000000 THEN 0 ELSE 1 END AS begins
    FROM bid
), numbered AS (
    SELECT bidder, date_time,
        sum(begins) OVER (
            PARTITION BY bidder ORDER BY date_time, begins DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS session
    FROM marked
)
SELECT bidder, count(*) AS bid_count, min(date_time) AS started, max(date_time) + INTERVAL '10' SECOND AS ended
FROM numbered
GROUP BY bidder, session
