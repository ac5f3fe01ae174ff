-- ESL (Stream Mill), Examples 1 to 3, 5 and 6: an auction's streams, a filter, a union, and what each item fetched.
--   headrace sql --home /tmp/auctions -f examples/auctions.sql
-- With SOURCE 'port4445' after ORDER BY, as the paper prints it, the rows come from a socket instead of INSERT.

CREATE STREAM OpenAuction (itemID int, sellerID char(10), price real, start_time timestamp)
  ORDER BY start_time;
CREATE STREAM ClosedAuction (itemID int, buyerID char(10), price real, close_time timestamp)
  ORDER BY close_time;

-- Example 3: a stream derived from another.
CREATE STREAM expensiveItems AS
  SELECT itemID, price FROM OpenAuction WHERE price > 1000;

-- Example 6: both streams as one, by item and price.
CREATE STREAM PriceRise (itemID, price, Time) AS
  SELECT itemID, price, start_time FROM OpenAuction
  UNION ALL
  SELECT itemID, price, close_time FROM ClosedAuction;

CREATE VIEW fetched AS
  SELECT o.itemID, o.sellerID, c.buyerID, o.price AS asked, c.price AS paid
  FROM OpenAuction o JOIN ClosedAuction c ON o.itemID = c.itemID;

INSERT INTO OpenAuction VALUES
  (1, 'ann', 500, '2005-06-01 10:00:00'), (2, 'ben', 1500, '2005-06-01 10:01:00'),
  (3, 'ann', 2500, '2005-06-01 10:02:00'), (4, 'cat', 40, '2005-06-01 10:03:00');
INSERT INTO ClosedAuction VALUES
  (1, 'dan', 650, '2005-06-01 11:00:00'), (3, 'eve', 3100, '2005-06-01 11:30:00');
REFRESH;

SELECT * FROM expensiveItems ORDER BY itemID;
SELECT * FROM fetched ORDER BY itemID;
SELECT itemID, MAX(price) - MIN(price) AS rise FROM PriceRise GROUP BY itemID HAVING COUNT(*) = 2 ORDER BY itemID;

-- Example 5: each item beside its seller's cheapest so far.
SELECT itemID, sellerID, price, MIN(price) OVER (PARTITION BY sellerID ORDER BY start_time) AS cheapest
FROM OpenAuction ORDER BY itemID;
