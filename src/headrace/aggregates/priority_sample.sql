-- priority_sample(value, id, k): k values chosen at random, each row as likely as any other.
--
-- value    what is sampled, of any type
-- id       a whole number that tells the row apart from all others: its priority is a hash of it, so that the same rows
--          always give the same sample
-- k        how many values to choose
-- result   up to k rows (place INT, value): the rows with the largest priorities, the largest first
--
-- Over a table it tells one sample. Over a window it tells the sample of the window for each row, so a SLIDE is useful:
--   SELECT priority_sample(price, bid_id, 10) OVER (RANGE 1 HOUR PRECEDING SLIDE 1 HOUR) FROM Bid
-- Of a window, only rows that can still get into a sample are kept: those that fewer than k later rows surpass. These
-- are about k * (1 + ln(n / k)) of n rows.
CREATE AGGREGATE priority_sample(value, id BIGINT, k INT) : (place INT, value)
{
    TABLE sample(priority BIGINT, value, size INT);
    INITIALIZE: { INSERT INTO sample VALUES (hash64(id), value, k) WHERE k > 0; }
    ITERATE: {
        INSERT INTO sample VALUES (hash64(id), value, k) WHERE k > 0;
        DELETE FROM sample WHERE (SELECT count(*) FROM sample) > k
            AND priority = (SELECT min(priority) FROM sample);
    }
    TERMINATE: {
        INSERT INTO RETURN
            SELECT (SELECT count(*) FROM sample AS other WHERE other.priority >= sample.priority), sample.value
            FROM sample ORDER BY priority DESC;
    }
};

CREATE WINDOW AGGREGATE priority_sample(value, id BIGINT, k INT) : (place INT, value)
{
    TABLE inwindow(wvalue, wid BIGINT, wk INT);
    TABLE kept(priority BIGINT, value, kid BIGINT, surpassed INT);
    INITIALIZE: ITERATE: {
        UPDATE kept SET surpassed = surpassed + 1 WHERE priority < hash64(id);
        DELETE FROM kept WHERE surpassed >= k;
        INSERT INTO kept VALUES (hash64(id), value, id, 0);
        DELETE FROM inwindow WHERE wid NOT IN (SELECT kid FROM kept);
        INSERT INTO RETURN
            SELECT (SELECT count(*) FROM kept AS other WHERE other.priority >= kept.priority), kept.value
            FROM kept ORDER BY priority DESC LIMIT k;
    }
    EXPIRE: {
        DELETE FROM kept WHERE kid = oldest().wid;
        INSERT INTO RETURN
            SELECT (SELECT count(*) FROM kept AS other WHERE other.priority >= kept.priority), kept.value
            FROM kept ORDER BY priority DESC LIMIT k;
    }
}
