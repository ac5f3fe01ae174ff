-- decay_online_avg(Next): an average in which new values weigh more than old ones (ESL, Example 8).
--
-- Next     the value; NULLs are left out
-- result   a DOUBLE for each row: the average so far. The sum so far counts 0.9 times, the new value 1.1 times.
--
-- It does not block, so it can be called over a stream without a window:
--   SELECT decay_online_avg(price) FROM ClosedAuction
CREATE AGGREGATE decay_online_avg(Next DOUBLE) : DOUBLE
{
    TABLE state(tsum DOUBLE, cnt BIGINT);
    INITIALIZE: {
        INSERT INTO state VALUES (coalesce(Next, 0), CASE WHEN Next IS NULL THEN 0 ELSE 1 END);
        INSERT INTO RETURN VALUES (Next);
    }
    ITERATE: {
        UPDATE state SET tsum = CASE WHEN cnt = 0 THEN Next ELSE 0.9 * tsum + 1.1 * Next END, cnt = cnt + 1
            WHERE Next IS NOT NULL;
        INSERT INTO RETURN SELECT tsum / cnt FROM state;
    }
}
