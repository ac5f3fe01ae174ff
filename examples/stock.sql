-- Tables changed by INSERT, UPDATE, DELETE and MERGE, and a view that follows.
--   headrace sql --home /tmp/stock -f examples/stock.sql

CREATE TABLE stock (sku STRING PRIMARY KEY, shelf STRING, pieces INT, price DECIMAL(10,2));
CREATE TABLE deliveries (sku STRING, pieces INT, price DECIMAL(10,2));

CREATE VIEW shelves AS
  SELECT shelf, COUNT(*) AS items, SUM(pieces) AS pieces, SUM(pieces * price) AS worth FROM stock GROUP BY shelf;

INSERT INTO stock VALUES ('bolt', 'A', 100, 0.12), ('nut', 'A', 250, 0.05), ('hinge', 'B', 8, 4.75);
REFRESH;
SELECT * FROM shelves ORDER BY shelf;

INSERT INTO deliveries VALUES ('bolt', 50, 0.13), ('latch', 20, 6.10);
MERGE INTO stock t USING deliveries d ON t.sku = d.sku
  WHEN MATCHED THEN UPDATE SET pieces = t.pieces + d.pieces, price = d.price
  WHEN NOT MATCHED THEN INSERT (sku, shelf, pieces, price) VALUES (d.sku, 'B', d.pieces, d.price);
UPDATE stock SET pieces = pieces - 3 WHERE sku = 'hinge';
DELETE FROM stock WHERE sku = 'nut';
REFRESH;
SELECT * FROM stock ORDER BY sku;
SELECT * FROM shelves ORDER BY shelf;
