-- ones_in_window(bit, n, error): about how many of the last n rows have a 1, in little memory.
--
-- bit      1 is counted; anything else, and NULL, is not
-- n        how many rows back, the row itself among them
-- error    how far off the answer may be, as a part of it: above 0, at most 0.5. 0.1 is ten per cent.
-- result   a DOUBLE for each row
--
-- An exponential histogram (Datar, Gionis, Indyk and Motwani): ones are put together in buckets whose sizes are powers
-- of 2, of which the place of the newest one is kept. Of each size there are at most m = ceil(1 / (2 * error)) + 1; one
-- more makes the two oldest of that size one of the next. Only the oldest bucket can lie across the window's edge, and
-- half of it is counted. So about m * log2(n) buckets are kept instead of n rows. It keeps its window by itself, and
-- does not block:
--   SELECT ones_in_window(CASE WHEN failed THEN 1 ELSE 0 END, 100000, 0.05) FROM Request
CREATE AGGREGATE ones_in_window(bit INT, n BIGINT, error DOUBLE) : DOUBLE
{
    TABLE buckets(size BIGINT, newest BIGINT);
    TABLE state(seen BIGINT, full BIGINT);
    INITIALIZE: {
        INSERT INTO state VALUES (1, 0);
        INSERT INTO buckets VALUES (1, 1) WHERE bit = 1 AND n > 0;
        INSERT INTO RETURN SELECT count(*) FROM buckets;
    }
    ITERATE: {
        UPDATE state SET seen = seen + 1;
        DELETE FROM buckets WHERE newest <= (SELECT seen FROM state) - n;
        -- All sizes below `full` have as many buckets as they may: there the two oldest become one.
        UPDATE state SET full = coalesce(
            (SELECT size FROM buckets GROUP BY size HAVING count(*) <= ceil(0.5 / error) ORDER BY size LIMIT 1),
            (SELECT 2 * max(size) FROM buckets), 1) WHERE bit = 1;
        DELETE FROM buckets WHERE bit = 1 AND size < (SELECT full FROM state)
            AND newest = (SELECT min(b.newest) FROM buckets AS b WHERE b.size = buckets.size);
        UPDATE buckets SET size = 2 * size WHERE bit = 1 AND size < (SELECT full FROM state)
            AND newest = (SELECT min(b.newest) FROM buckets AS b WHERE b.size = buckets.size);
        INSERT INTO buckets SELECT 1, seen FROM state WHERE bit = 1 AND n > 0;
        INSERT INTO RETURN SELECT coalesce(sum(size) - (max(size) - 1) / 2, 0) FROM buckets;
    }
}
