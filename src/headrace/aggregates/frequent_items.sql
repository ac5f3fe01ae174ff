-- frequent_items(item, hashes, width): about how often the row's item occurs, by counting filters.
--
-- item     a whole number, a time, a date or text
-- hashes   how many hash tables there are, at most 64
-- width    how many counters each of them has
-- result   a BIGINT for each row: never less than the item's true count; more where other items share its counters
--
-- Each row adds 1 to its counter in every table, and takes it away again when it leaves the window. The smallest of an
-- item's counters is the answer. Counters that are 0 are not stored. Items over a threshold:
--   SELECT item FROM Bid QUALIFY frequent_items(item, 4, 256) OVER (ROWS 9999 PRECEDING) > 500
-- The base version does not block, and counts the whole stream.
CREATE AGGREGATE frequent_items(item, hashes INT, width BIGINT) : BIGINT
{
    TABLE tables(n INT, place BIGINT);
    TABLE counters(n INT, place BIGINT, cnt BIGINT);
    INITIALIZE: {
        INSERT INTO tables VALUES (0, 0);
        INSERT INTO tables SELECT n + 1, 0 FROM tables;
        INSERT INTO tables SELECT n + 2, 0 FROM tables;
        INSERT INTO tables SELECT n + 4, 0 FROM tables;
        INSERT INTO tables SELECT n + 8, 0 FROM tables;
        INSERT INTO tables SELECT n + 16, 0 FROM tables;
        INSERT INTO tables SELECT n + 32, 0 FROM tables;
        DELETE FROM tables WHERE n >= hashes;
        UPDATE tables SET place = abs(hash64(item, n) % width);
        INSERT INTO counters SELECT n, place, 1 FROM tables WHERE place IS NOT NULL;
        INSERT INTO RETURN SELECT min(cnt) FROM counters;
    }
    ITERATE: {
        UPDATE tables SET place = abs(hash64(item, n) % width);
        INSERT INTO counters SELECT n, place, 0 FROM tables WHERE place IS NOT NULL AND NOT EXISTS
            (SELECT cnt FROM counters AS c WHERE c.n = tables.n AND c.place = tables.place);
        UPDATE counters SET cnt = cnt + 1
            WHERE EXISTS (SELECT t.n FROM tables AS t WHERE t.n = counters.n AND t.place = counters.place);
        INSERT INTO RETURN SELECT min(c.cnt)
            FROM tables AS t JOIN counters AS c ON c.n = t.n AND c.place = t.place;
    }
};

CREATE WINDOW AGGREGATE frequent_items(item, hashes INT, width BIGINT) : BIGINT
{
    TABLE tables(n INT, place BIGINT);
    TABLE counters(n INT, place BIGINT, cnt BIGINT);
    TABLE inwindow(witem, whashes INT, wwidth BIGINT);
    INITIALIZE: {
        INSERT INTO tables VALUES (0, 0);
        INSERT INTO tables SELECT n + 1, 0 FROM tables;
        INSERT INTO tables SELECT n + 2, 0 FROM tables;
        INSERT INTO tables SELECT n + 4, 0 FROM tables;
        INSERT INTO tables SELECT n + 8, 0 FROM tables;
        INSERT INTO tables SELECT n + 16, 0 FROM tables;
        INSERT INTO tables SELECT n + 32, 0 FROM tables;
        DELETE FROM tables WHERE n >= hashes;
        UPDATE tables SET place = abs(hash64(item, n) % width);
        INSERT INTO counters SELECT n, place, 1 FROM tables WHERE place IS NOT NULL;
        INSERT INTO RETURN SELECT min(cnt) FROM counters;
    }
    ITERATE: {
        UPDATE tables SET place = abs(hash64(item, n) % width);
        INSERT INTO counters SELECT n, place, 0 FROM tables WHERE place IS NOT NULL AND NOT EXISTS
            (SELECT cnt FROM counters AS c WHERE c.n = tables.n AND c.place = tables.place);
        UPDATE counters SET cnt = cnt + 1
            WHERE EXISTS (SELECT t.n FROM tables AS t WHERE t.n = counters.n AND t.place = counters.place);
        INSERT INTO RETURN SELECT min(c.cnt)
            FROM tables AS t JOIN counters AS c ON c.n = t.n AND c.place = t.place;
    }
    EXPIRE: {
        UPDATE tables SET place = abs(hash64(item, n) % width);
        UPDATE counters SET cnt = cnt - 1
            WHERE EXISTS (SELECT t.n FROM tables AS t WHERE t.n = counters.n AND t.place = counters.place);
        INSERT INTO RETURN SELECT min(c.cnt)
            FROM tables AS t JOIN counters AS c ON c.n = t.n AND c.place = t.place;
        DELETE FROM counters WHERE cnt = 0;
    }
}
