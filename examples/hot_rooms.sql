-- SyncSQL, Examples 1, 3 and 4: rooms that are too hot, as a stream of changes.
--   headrace sql --home /tmp/hot-rooms -f examples/hot_rooms.sql
-- The paper's source is a port (FROM port5501); MEMORY takes the same rows from INSERT, with their times of arrival.

REGISTER SOURCE TemperatureSource (char RoomID, int Temperature) FROM MEMORY;

-- Keyed by room, a reading updates the one before it; without a key, every reading is a row of its own.
CREATE STREAM RoomTempStr OVER TemperatureSource KEY RoomID;
CREATE STREAM TempStr OVER TemperatureSource KEY NULL;

CREATE STREAMED VIEW HotRooms1 AS
  SELECT RoomID, Temperature FROM R(RoomTempStr) R WHERE R.Temperature > 80;

INSERT INTO TemperatureSource VALUES ('a', 78) AT 1, ('a', 105) AT 2, ('b', 70) AT 3;
REFRESH;
SELECT * FROM HotRooms1 ORDER BY RoomID;

INSERT INTO TemperatureSource VALUES ('c', 95) AT 4, ('a', 76) AT 5, ('c', 103) AT 6;
REFRESH;
SELECT * FROM HotRooms1 ORDER BY RoomID;

-- The view's own tagged stream: + a row came, u it changed, - it went.
SELECT * FROM CHANGES(HotRooms1) ORDER BY ts;

-- A view answers queries like any relation: the rooms above 100 (Example 4).
SELECT RoomID, Temperature FROM R(HotRooms1) R WHERE R.Temperature > 100;
