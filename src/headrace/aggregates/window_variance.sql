-- window_variance(x): the variance of a sample, kept by adding what comes and taking away what leaves.
--
-- x        the value; NULLs are left out
-- result   a DOUBLE: the sum of the squared distances from the mean, divided by n - 1; NULL for fewer than two values
--
-- Welford's way, forwards and backwards: the mean and the squared distances from it. A value that is very much larger
-- than the others leaves some rounding behind when it goes; an empty window starts from anew.
--   SELECT sensor, window_variance(level) OVER (PARTITION BY sensor ROWS 99 PRECEDING) FROM Reading
-- For panes, see variance_parts.
CREATE AGGREGATE window_variance(x DOUBLE) : DOUBLE
{
    TABLE state(n BIGINT, mean DOUBLE, m2 DOUBLE);
    INITIALIZE: { INSERT INTO state VALUES (CASE WHEN x IS NULL THEN 0 ELSE 1 END, coalesce(x, 0), 0); }
    ITERATE: {
        UPDATE state SET n = n + 1, mean = mean + (x - mean) / (n + 1), m2 = m2 + (x - mean) * (x - mean) * n / (n + 1)
            WHERE x IS NOT NULL;
    }
    TERMINATE: { INSERT INTO RETURN SELECT CASE WHEN n > 1 THEN m2 / (n - 1) END FROM state; }
};

CREATE WINDOW AGGREGATE window_variance(x DOUBLE) : DOUBLE
{
    TABLE state(n BIGINT, mean DOUBLE, m2 DOUBLE);
    TABLE inwindow(wx DOUBLE);
    INITIALIZE: {
        INSERT INTO state VALUES (CASE WHEN x IS NULL THEN 0 ELSE 1 END, coalesce(x, 0), 0);
        INSERT INTO RETURN VALUES (NULL);
    }
    ITERATE: {
        UPDATE state SET n = n + 1, mean = mean + (x - mean) / (n + 1), m2 = m2 + (x - mean) * (x - mean) * n / (n + 1)
            WHERE x IS NOT NULL;
        INSERT INTO RETURN SELECT CASE WHEN n > 1 THEN m2 / (n - 1) END FROM state;
    }
    EXPIRE: {
        UPDATE state SET n = n - 1,
            mean = CASE WHEN n = 1 THEN 0 ELSE mean - (x - mean) / (n - 1) END,
            m2 = CASE WHEN n <= 2 THEN 0 ELSE greatest(0, m2 - (x - mean) * (x - mean) * n / (n - 1)) END
            WHERE x IS NOT NULL;
        INSERT INTO RETURN SELECT CASE WHEN n > 1 THEN m2 / (n - 1) END FROM state;
    }
}
