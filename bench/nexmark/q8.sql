-- Monitor new users: who came and opened an auction within the same ten seconds.
SELECT p.id, p.name, p.started
FROM (
    SELECT id, name, window.start AS started, window.end AS ended
    FROM person
    GROUP BY id, name, window(date_time, '10 seconds')
) p
JOIN (
    SELECT seller, window.start AS started, window.end AS ended
    FROM auction
    GROUP BY seller, window(date_time, '10 seconds')
) a ON p.id = a.seller AND p.started = a.started AND p.ended = a.ended
