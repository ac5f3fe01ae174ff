-- frequent_items(item, hashes, width): about how often the row's item occurs, by counting filters.
--
-- item     a whole number, a time, a date or text
-- hashes   how many hash tables there are, at most 64
-- width    how many counters each of them has, at most 65,536
-- result   a BIGINT for each row: never less than the item's true count; more where other items share its counters
--
-- Each row adds 1 to its counter in every table, and takes it away again when it leaves the window. The smallest of an
-- item's counters is the answer. Items over a threshold:
--   SELECT item, frequent_items(item, 4, 256) OVER (ROWS 9999 PRECEDING) AS n FROM Bid QUALIFY n > 500
-- The base version does not block, and counts the whole stream.
CREATE AGGREGATE frequent_items(item, hashes INT, width BIGINT) : BIGINT
{
    TABLE counters(n INT, place BIGINT, cnt BIGINT);
    INITIALIZE: {
        INSERT INTO counters VALUES (0, 0, 0);
        INSERT INTO counters SELECT n + 1, place, 0 FROM counters WHERE n + 1 < hashes;
        INSERT INTO counters SELECT n + 2, place, 0 FROM counters WHERE n + 2 < hashes;
        INSERT INTO counters SELECT n + 4, place, 0 FROM counters WHERE n + 4 < hashes;
        INSERT INTO counters SELECT n + 8, place, 0 FROM counters WHERE n + 8 < hashes;
        INSERT INTO counters SELECT n + 16, place, 0 FROM counters WHERE n + 16 < hashes;
        INSERT INTO counters SELECT n + 32, place, 0 FROM counters WHERE n + 32 < hashes;
        INSERT INTO counters SELECT n, place + 1, 0 FROM counters WHERE place + 1 < width;
        INSERT INTO counters SELECT n, place + 2, 0 FROM counters WHERE place + 2 < width;
        INSERT INTO counters SELECT n, place + 4, 0 FROM counters WHERE place + 4 < width;
        INSERT INTO counters SELECT n, place + 8, 0 FROM counters WHERE place + 8 < width;
        INSERT INTO counters SELECT n, place + 16, 0 FROM counters WHERE place + 16 < width;
        INSERT INTO counters SELECT n, place + 32, 0 FROM counters WHERE place + 32 < width;
        INSERT INTO counters SELECT n, place + 64, 0 FROM counters WHERE place + 64 < width;
        INSERT INTO counters SELECT n, place + 128, 0 FROM counters WHERE place + 128 < width;
        INSERT INTO counters SELECT n, place + 256, 0 FROM counters WHERE place + 256 < width;
        INSERT INTO counters SELECT n, place + 512, 0 FROM counters WHERE place + 512 < width;
        INSERT INTO counters SELECT n, place + 1024, 0 FROM counters WHERE place + 1024 < width;
        INSERT INTO counters SELECT n, place + 2048, 0 FROM counters WHERE place + 2048 < width;
        INSERT INTO counters SELECT n, place + 4096, 0 FROM counters WHERE place + 4096 < width;
        INSERT INTO counters SELECT n, place + 8192, 0 FROM counters WHERE place + 8192 < width;
        INSERT INTO counters SELECT n, place + 16384, 0 FROM counters WHERE place + 16384 < width;
        INSERT INTO counters SELECT n, place + 32768, 0 FROM counters WHERE place + 32768 < width;
        UPDATE counters SET cnt = cnt + 1 WHERE place = abs(hash64(item, n) % width);
        INSERT INTO RETURN SELECT min(cnt) FROM counters WHERE place = abs(hash64(item, n) % width);
    }
    ITERATE: {
        UPDATE counters SET cnt = cnt + 1 WHERE place = abs(hash64(item, n) % width);
        INSERT INTO RETURN SELECT min(cnt) FROM counters WHERE place = abs(hash64(item, n) % width);
    }
};

CREATE WINDOW AGGREGATE frequent_items(item, hashes INT, width BIGINT) : BIGINT
{
    TABLE counters(n INT, place BIGINT, cnt BIGINT);
    TABLE inwindow(witem, whashes INT, wwidth BIGINT);
    INITIALIZE: {
        INSERT INTO counters VALUES (0, 0, 0);
        INSERT INTO counters SELECT n + 1, place, 0 FROM counters WHERE n + 1 < hashes;
        INSERT INTO counters SELECT n + 2, place, 0 FROM counters WHERE n + 2 < hashes;
        INSERT INTO counters SELECT n + 4, place, 0 FROM counters WHERE n + 4 < hashes;
        INSERT INTO counters SELECT n + 8, place, 0 FROM counters WHERE n + 8 < hashes;
        INSERT INTO counters SELECT n + 16, place, 0 FROM counters WHERE n + 16 < hashes;
        INSERT INTO counters SELECT n + 32, place, 0 FROM counters WHERE n + 32 < hashes;
        INSERT INTO counters SELECT n, place + 1, 0 FROM counters WHERE place + 1 < width;
        INSERT INTO counters SELECT n, place + 2, 0 FROM counters WHERE place + 2 < width;
        INSERT INTO counters SELECT n, place + 4, 0 FROM counters WHERE place + 4 < width;
        INSERT INTO counters SELECT n, place + 8, 0 FROM counters WHERE place + 8 < width;
        INSERT INTO counters SELECT n, place + 16, 0 FROM counters WHERE place + 16 < width;
        INSERT INTO counters SELECT n, place + 32, 0 FROM counters WHERE place + 32 < width;
        INSERT INTO counters SELECT n, place + 64, 0 FROM counters WHERE place + 64 < width;
        INSERT INTO counters SELECT n, place + 128, 0 FROM counters WHERE place + 128 < width;
        INSERT INTO counters SELECT n, place + 256, 0 FROM counters WHERE place + 256 < width;
        INSERT INTO counters SELECT n, place + 512, 0 FROM counters WHERE place + 512 < width;
        INSERT INTO counters SELECT n, place + 1024, 0 FROM counters WHERE place + 1024 < width;
        INSERT INTO counters SELECT n, place + 2048, 0 FROM counters WHERE place + 2048 < width;
        INSERT INTO counters SELECT n, place + 4096, 0 FROM counters WHERE place + 4096 < width;
        INSERT INTO counters SELECT n, place + 8192, 0 FROM counters WHERE place + 8192 < width;
        INSERT INTO counters SELECT n, place + 16384, 0 FROM counters WHERE place + 16384 < width;
        INSERT INTO counters SELECT n, place + 32768, 0 FROM counters WHERE place + 32768 < width;
        UPDATE counters SET cnt = cnt + 1 WHERE place = abs(hash64(item, n) % width);
        INSERT INTO RETURN SELECT min(cnt) FROM counters WHERE place = abs(hash64(item, n) % width);
    }
    ITERATE: {
        UPDATE counters SET cnt = cnt + 1 WHERE place = abs(hash64(item, n) % width);
        INSERT INTO RETURN SELECT min(cnt) FROM counters WHERE place = abs(hash64(item, n) % width);
    }
    EXPIRE: {
        UPDATE counters SET cnt = cnt - 1 WHERE place = abs(hash64(item, n) % width);
        INSERT INTO RETURN SELECT min(cnt) FROM counters WHERE place = abs(hash64(item, n) % width);
    }
}
