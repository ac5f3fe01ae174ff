-- Watching a network: losses reported by devices, counted by link and by site, while the table of devices changes.
--   headrace sql --home /tmp/network -f examples/network.sql
-- headrace demo plays a longer one live.

CREATE TABLE devices (device INT PRIMARY KEY, name STRING, site STRING);
CREATE STREAM losses (src INT, dest INT, loss INT, at TIMESTAMP) ORDER BY at;

CREATE VIEW link_losses AS
  SELECT s.name AS sender, d.name AS receiver, SUM(l.loss) AS lost, MAX(l.at) AS latest
  FROM losses l JOIN devices s ON l.src = s.device JOIN devices d ON l.dest = d.device
  GROUP BY s.name, d.name;

-- A view over a view.
CREATE VIEW worst_senders AS
  SELECT sender, SUM(lost) AS total FROM link_losses GROUP BY sender HAVING SUM(lost) > 10;

INSERT INTO devices VALUES (1, 'core-1', 'north'), (2, 'core-2', 'south') AT '2015-01-01 10:00:00';
INSERT INTO losses VALUES
  (1, 2, 7, '2015-01-01 10:00:01'), (2, 1, 3, '2015-01-01 10:00:02'),
  (3, 1, 12, '2015-01-01 10:00:03'), (1, 2, 5, '2015-01-01 10:00:04');
REFRESH;
SELECT * FROM link_losses ORDER BY sender, receiver;

-- Device 3 is entered late. The table is retroactive, so what the device had reported counts at once.
INSERT INTO devices VALUES (3, 'edge-1', 'north') AT '2015-01-01 10:00:05';
UPDATE devices SET name = 'core-9' WHERE device = 2 AT '2015-01-01 10:00:05';
REFRESH;
SELECT * FROM link_losses ORDER BY sender, receiver;
SELECT * FROM worst_senders ORDER BY sender;

-- As it was before.
SELECT * FROM worst_senders AS OF '2015-01-01 10:00:04' ORDER BY sender;

SHOW VIEWS;
EXPLAIN worst_senders;
