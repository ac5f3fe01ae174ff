"""Nexmark's queries in plain Spark SQL, over the streams `person`, `auction` and `bid`.

They mean what the published ones mean, with event time throughout: q12, which counts by the time of processing there,
has windows of event time here. Where the published order leaves ties, further columns break them. q6 is left out, as
everywhere: it asks for an OVER window over a query whose rows change.
"""

from __future__ import annotations

from collections.abc import Mapping

_RANKS = """
  count(*) AS total_bids,
  count(*) FILTER (WHERE price < 10000) AS rank1_bids,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
  count(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""

_DISTINCT = """,
  count(DISTINCT bidder) AS total_bidders,
  count(DISTINCT bidder) FILTER (WHERE price < 10000) AS rank1_bidders,
  count(DISTINCT bidder) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bidders,
  count(DISTINCT bidder) FILTER (WHERE price >= 1000000) AS rank3_bidders,
  count(DISTINCT auction) AS total_auctions,
  count(DISTINCT auction) FILTER (WHERE price < 10000) AS rank1_auctions,
  count(DISTINCT auction) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_auctions,
  count(DISTINCT auction) FILTER (WHERE price >= 1000000) AS rank3_auctions"""

#: What each query is called, and its text.
QUERIES: Mapping[str, str] = {
    # Pass through.
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    # Currency conversion.
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    # Selection.
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    # Local item suggestion.
    "q3": """
SELECT p.name, p.city, p.state, a.id
FROM auction a
JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')""",
    # Average price for a category.
    "q4": """
SELECT category, avg(final) AS price
FROM (
  SELECT max(b.price) AS final, a.category
  FROM auction a
  JOIN bid b ON a.id = b.auction AND b.dateTime BETWEEN a.dateTime AND a.expires
  GROUP BY a.id, a.category
) AS winners
GROUP BY category""",
    # Hot items: the auctions with the most bids of the last 10 seconds, every 2 seconds.
    "q5": """
WITH counted AS (
  SELECT auction, window.start AS starttime, window.end AS endtime, count(*) AS num
  FROM bid
  GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')
)
SELECT c.auction, c.num, c.starttime, c.endtime
FROM counted c
JOIN (SELECT max(num) AS maxn, starttime, endtime FROM counted GROUP BY starttime, endtime) m
  ON c.starttime = m.starttime AND c.endtime = m.endtime AND c.num >= m.maxn""",
    # Highest bid of every 10 seconds.
    "q7": """
SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra
FROM bid b
JOIN (
  SELECT max(price) AS maxprice, window.start AS starttime, window.end AS endtime
  FROM bid
  GROUP BY window(dateTime, '10 seconds')
) m ON b.price = m.maxprice AND b.dateTime >= m.starttime AND b.dateTime < m.endtime""",
    # Monitor new users: people who offered an auction in the same 10 seconds in which they came.
    "q8": """
SELECT p.id, p.name, p.starttime
FROM (
  SELECT id, name, window.start AS starttime, window.end AS endtime
  FROM person
  GROUP BY id, name, window(dateTime, '10 seconds')
) p
JOIN (
  SELECT seller, window.start AS starttime, window.end AS endtime
  FROM auction
  GROUP BY seller, window(dateTime, '10 seconds')
) a ON p.id = a.seller AND p.starttime = a.starttime AND p.endtime = a.endtime""",
    # Winning bids.
    "q9": """
SELECT id, itemName, description, initialBid, reserve, auctionTime, expires, seller, category,
  auction, bidder, price, bidTime
FROM (
  SELECT a.id, a.itemName, a.description, a.initialBid, a.reserve, a.dateTime AS auctionTime, a.expires, a.seller,
    a.category, b.auction, b.bidder, b.price, b.dateTime AS bidTime,
    row_number() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.dateTime, b.bidder) AS place
  FROM auction a
  JOIN bid b ON a.id = b.auction
  WHERE b.dateTime BETWEEN a.dateTime AND a.expires
) AS ranked
WHERE place <= 1""",
    # Log to file system: the columns its folders are named after.
    "q10": """
SELECT auction, bidder, price, dateTime, extra,
  date_format(dateTime, 'yyyy-MM-dd') AS dt, date_format(dateTime, 'HH:mm') AS hm
FROM bid""",
    # User sessions.
    "q11": """
SELECT bidder, count(*) AS bid_count, session_window.start AS starttime, session_window.end AS endtime
FROM bid
GROUP BY bidder, session_window(dateTime, '10 seconds')""",
    # Windows of 10 seconds.
    "q12": """
SELECT bidder, count(*) AS bid_count, window.start AS starttime, window.end AS endtime
FROM bid
GROUP BY bidder, window(dateTime, '10 seconds')""",
    # Bounded side input.
    "q13": """
SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
FROM bid b
JOIN side_input s ON b.auction % 10000 = s.key""",
    # Calculation.
    "q14": """
SELECT auction, bidder, 0.908 * price AS price,
  CASE
    WHEN hour(dateTime) >= 8 AND hour(dateTime) <= 18 THEN 'dayTime'
    WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime'
    ELSE 'otherTime'
  END AS bidTimeType,
  dateTime, extra,
  length(extra) - length(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    # Bidding statistics.
    "q15": f"""
SELECT date_format(dateTime, 'yyyy-MM-dd') AS day,{_RANKS}{_DISTINCT}
FROM bid
GROUP BY date_format(dateTime, 'yyyy-MM-dd')""",
    # Channel statistics.
    "q16": f"""
SELECT channel, date_format(dateTime, 'yyyy-MM-dd') AS day,
  max(date_format(dateTime, 'HH:mm')) AS minute,{_RANKS}{_DISTINCT}
FROM bid
GROUP BY channel, date_format(dateTime, 'yyyy-MM-dd')""",
    # Auction statistics.
    "q17": f"""
SELECT auction, date_format(dateTime, 'yyyy-MM-dd') AS day,{_RANKS},
  min(price) AS min_price, max(price) AS max_price, avg(price) AS avg_price, sum(price) AS sum_price
FROM bid
GROUP BY auction, date_format(dateTime, 'yyyy-MM-dd')""",
    # Last bid of each bidder for each auction.
    "q18": """
SELECT auction, bidder, price, channel, url, dateTime, extra
FROM (
  SELECT *, row_number() OVER (PARTITION BY bidder, auction ORDER BY dateTime DESC, price, extra) AS place FROM bid
) AS ranked
WHERE place <= 1""",
    # The ten highest bids of each auction.
    "q19": """
SELECT auction, bidder, price, channel, url, dateTime, extra, place
FROM (
  SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, dateTime, bidder, extra) AS place FROM bid
) AS ranked
WHERE place <= 10""",
    # Bids with their auction, of one category.
    "q20": """
SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.dateTime AS bidTime, a.itemName, a.description, a.initialBid,
  a.reserve, a.dateTime AS auctionTime, a.expires, a.seller, a.category
FROM bid b
JOIN auction a ON b.auction = a.id
WHERE a.category = 10""",
    # Channel by number.
    "q21": """
SELECT auction, bidder, price, channel,
  CASE
    WHEN lower(channel) = 'apple' THEN '0'
    WHEN lower(channel) = 'google' THEN '1'
    WHEN lower(channel) = 'facebook' THEN '2'
    WHEN lower(channel) = 'baidu' THEN '3'
    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
  END AS channel_id
FROM bid
WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''
  OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    # The folders of a URL.
    "q22": """
SELECT auction, bidder, price, channel,
  split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM bid""",
}
