-- Days, over the views and streams of orders.py; the order of the statements does not matter.
CREATE MATERIALIZED VIEW busy AS
SELECT day, n FROM by_day WHERE n > (SELECT avg(n) FROM by_day);

CREATE MATERIALIZED VIEW by_day (day DATE, n BIGINT, total BIGINT)
COMMENT 'orders of each day; a semicolon'
TBLPROPERTIES ('shop.team' = 'sales')
AS SELECT day, count(*) AS n, sum(price) AS total FROM orders GROUP BY day;

CREATE TEMPORARY VIEW tea AS SELECT id, day FROM STREAM(raw) AS r WHERE r.item = 'tea';

CREATE STREAMING TABLE tea_days AS SELECT day, id FROM STREAM tea;

CREATE STREAMING TABLE every_id;

CREATE FLOW ids AS INSERT INTO every_id BY NAME SELECT id FROM STREAM raw;

CREATE FLOW teas AS INSERT INTO every_id BY NAME SELECT -id AS id FROM STREAM tea_days;
