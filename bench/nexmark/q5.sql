-- Hot items: the auctions with the most bids in the last ten seconds, every two seconds.
WITH counted AS (
    SELECT auction, count(*) AS num, window.start AS started, window.end AS ended
    FROM bid
    GROUP BY auction, window(date_time, '10 seconds', '2 seconds')
), most AS (
    SELECT max(num) AS num, started, ended
    FROM counted
    GROUP BY started, ended
)
SELECT counted.auction, counted.num, counted.started, counted.ended
FROM counted
JOIN most ON counted.started = most.started AND counted.ended = most.ended AND counted.num >= most.num
