-- variance_parts(n, mean, m2): variance in a form that can be put together from parts, so that panes can be used.
--
-- n        how many values a part has: 1 for a single value, 0 for none
-- mean     their mean: the value itself
-- m2       the sum of their squared distances from the mean: 0 for a single value
-- result   (n BIGINT, mean DOUBLE, m2 DOUBLE) of all parts together; the variance is m2 / (n - 1)
--
-- What it tells is what it takes, so it is ALGEBRAIC (ESL, 5.1): with SLIDE, each pane is computed once, and the window
-- goes over the panes.
--   SELECT variance_parts(1, level, 0) OVER (RANGE 1 HOUR PRECEDING SLIDE 10 MINUTES) FROM Reading
CREATE ALGEBRAIC AGGREGATE variance_parts(n BIGINT, mean DOUBLE, m2 DOUBLE) : (n BIGINT, mean DOUBLE, m2 DOUBLE)
{
    TABLE state(cnt BIGINT, center DOUBLE, spread DOUBLE);
    INITIALIZE: {
        INSERT INTO state VALUES (0, 0, 0);
        UPDATE state SET cnt = n, center = mean, spread = m2 WHERE n > 0 AND mean IS NOT NULL;
    }
    ITERATE: {
        UPDATE state SET cnt = cnt + n, center = center + (mean - center) * n / (cnt + n),
            spread = spread + m2 + (mean - center) * (mean - center) * cnt * n / (cnt + n)
            WHERE n > 0 AND mean IS NOT NULL;
    }
    TERMINATE: { INSERT INTO RETURN SELECT cnt, CASE WHEN cnt > 0 THEN center END, spread FROM state; }
};

CREATE ALGEBRAIC WINDOW AGGREGATE variance_parts(n BIGINT, mean DOUBLE, m2 DOUBLE)
    : (n BIGINT, mean DOUBLE, m2 DOUBLE)
{
    TABLE state(cnt BIGINT, center DOUBLE, spread DOUBLE);
    TABLE inwindow(wn BIGINT, wmean DOUBLE, wm2 DOUBLE);
    INITIALIZE: {
        INSERT INTO state VALUES (0, 0, 0);
        UPDATE state SET cnt = n, center = mean, spread = m2 WHERE n > 0 AND mean IS NOT NULL;
        INSERT INTO RETURN SELECT cnt, CASE WHEN cnt > 0 THEN center END, spread FROM state;
    }
    ITERATE: {
        UPDATE state SET cnt = cnt + n, center = center + (mean - center) * n / (cnt + n),
            spread = spread + m2 + (mean - center) * (mean - center) * cnt * n / (cnt + n)
            WHERE n > 0 AND mean IS NOT NULL;
        INSERT INTO RETURN SELECT cnt, CASE WHEN cnt > 0 THEN center END, spread FROM state;
    }
    EXPIRE: {
        UPDATE state SET cnt = cnt - n,
            center = CASE WHEN cnt = n THEN 0 ELSE center - (mean - center) * n / (cnt - n) END,
            spread = CASE WHEN cnt - n <= 1 THEN 0
                ELSE greatest(0, spread - m2 - (mean - center) * (mean - center) * cnt * n / (cnt - n)) END
            WHERE n > 0 AND mean IS NOT NULL;
        INSERT INTO RETURN SELECT cnt, CASE WHEN cnt > 0 THEN center END, spread FROM state;
    }
}
