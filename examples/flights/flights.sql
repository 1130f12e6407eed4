-- The views of pipeline.py as one SQL file, over files that `python -m examples.flights.files` writes.
--
-- Flights and observations come with the minute at which they became known, in the column of TIME; what lies ahead of
-- the session's time waits. ADVANCE TO goes on to a minute, and every view is then what was known by then.
-- `altneu run examples/flights/flights.sql` runs it; with `--path out/flights/state` the views last.

CREATE SOURCE flights (
    id BIGINT, day DATE, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, hour INT,
    distance INT, sched_dep BIGINT, state STRING, dep_delay INT, arr_delay INT
) FROM FILE 'out/flights/days/flights' FORMAT PARQUET TIME (time) DIFF diff;

CREATE SOURCE observations (origin STRING, observed BIGINT, temp DOUBLE, visib DOUBLE, published BIGINT)
FROM FILE 'out/flights/days/weather' FORMAT PARQUET TIME (published);

-- Events of a database, as Debezium tells them.
CREATE SOURCE planes (tailnum STRING, built INT, manufacturer STRING, model STRING, seats INT)
FROM FILE 'out/flights/planes.txt' FORMAT TEXT ENVELOPE DEBEZIUM;

CREATE SOURCE airlines (carrier STRING, airline STRING)
FROM FILE 'out/flights/airlines.csv' FORMAT CSV OPTIONS (header = true);

-- How many flights of each day stand where: the departure board.
CREATE MATERIALIZED VIEW board AS
SELECT day, origin, state, count(*) AS flights
FROM flights
GROUP BY day, origin, state;

-- Who leaves late, and when in the day.
CREATE MATERIALIZED VIEW delays AS
SELECT carrier, hour, count(*) AS flights, avg(dep_delay) AS mean, sum(greatest(dep_delay, 0) / 60) AS hours,
    max(dep_delay) AS worst
FROM flights
WHERE dep_delay IS NOT NULL
GROUP BY carrier, hour;

-- Where passengers wait longest for those who arrive.
CREATE MATERIALIZED VIEW routes AS
SELECT origin, dest, count(*) AS flights, avg(arr_delay) AS delay
FROM flights
WHERE state = 'landed'
GROUP BY origin, dest
HAVING count(*) >= 200
ORDER BY delay DESC, origin, dest
LIMIT 10;

-- Every flight with its airline's name and its plane, if the plane is known.
CREATE MATERIALIZED VIEW fleet AS
SELECT id, day, airline, flight, origin, dest, state, dep_delay, manufacturer, model, seats
FROM flights
JOIN airlines USING (carrier)
LEFT JOIN planes USING (tailnum);

-- Who left in the last 24 hours: flights come into this view when they leave, and go a day later by themselves.
CREATE MATERIALIZED VIEW recent AS
SELECT origin, count(*) AS flights, avg(dep_delay) AS mean, count_if(dep_delay > 15) AS late
FROM flights
WHERE mz_now() >= sched_dep + dep_delay AND mz_now() < sched_dep + dep_delay + 1440
GROUP BY origin;

-- How far a plane's late arrival explains the delays of its later flights that day. A leg hands on, to the next one of
-- its plane, the minutes by which the plane came late and then left late; what is left of a leg's own lateness when the
-- next one lands is handed on again. A minute counts for the flight that first arrived late by it.
CREATE VIEW legs AS
SELECT id AS leg, lag(id) OVER plane AS before, dep_delay, arr_delay,
    greatest(least(coalesce(lag(arr_delay) OVER plane, 0), dep_delay), 0) AS handed
FROM flights
WHERE dep_delay IS NOT NULL AND tailnum IS NOT NULL
WINDOW plane AS (PARTITION BY tailnum, day ORDER BY sched_dep, id);

CREATE MATERIALIZED VIEW chains AS
WITH RECURSIVE lacking (root, above, leg, minutes) AS (  -- what a root's plane still lacks when a leg arrives
    SELECT leg, handed, leg, arr_delay
    FROM legs
    WHERE arr_delay > handed
    UNION ALL
    SELECT root, above, legs.leg, least(minutes, dep_delay, arr_delay)
    FROM lacking
    JOIN legs ON legs.before = lacking.leg
    WHERE handed > 0 AND dep_delay > above AND arr_delay > above
), explained AS (
    SELECT root, count(*) AS flights, sum(least(minutes, dep_delay) - above) AS minutes
    FROM lacking
    JOIN legs ON legs.before = lacking.leg
    WHERE handed > 0 AND dep_delay > above
    GROUP BY root
)
SELECT day, tailnum, carrier, flight, origin, dest, root, arr_delay AS late, explained.flights, minutes
FROM flights
JOIN explained ON root = id
WHERE dep_delay IS NOT NULL AND arr_delay > 0;

-- Each departure with the last observation at its airport: as it was known then, and as it turned out. An hour's
-- observation is published later than that, and not always in order: at each publication the last hour is known.
CREATE VIEW reports AS
SELECT origin, published, max(struct(observed, temp, visib)) OVER (PARTITION BY origin ORDER BY published) AS last
FROM observations;

CREATE MATERIALIZED VIEW weather AS
SELECT d.id, d.day, d.origin, d.departed,
    r.last.observed AS known, r.last.temp AS known_temp, r.last.visib AS known_visib, o.observed, o.temp, o.visib
FROM (SELECT id, day, origin, sched_dep + dep_delay AS departed FROM flights WHERE dep_delay IS NOT NULL) d
ASOF LEFT JOIN reports r ON d.origin = r.origin AND d.departed >= r.published
ASOF LEFT JOIN observations o ON d.origin = o.origin AND d.departed >= o.observed;

-- Here the views end, and a run begins: January.
ADVANCE TO 44640;

SELECT * FROM routes ORDER BY delay DESC, origin, dest;

SELECT origin, state, sum(flights) AS flights FROM board GROUP BY origin, state ORDER BY origin, state;

SELECT * FROM chains ORDER BY minutes DESC, root LIMIT 5;
