-- What the job of compose.yaml maintains: the first run creates it, and each further run adds its rows.
CREATE TABLE IF NOT EXISTS orders (item STRING, price BIGINT);
CREATE MATERIALIZED VIEW IF NOT EXISTS totals AS SELECT item, count(*) AS n, sum(price) AS total FROM orders GROUP BY item;
INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4);
SELECT * FROM totals;
