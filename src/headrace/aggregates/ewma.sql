-- ewma(x, alpha): the exponentially weighted moving average.
--
-- x        the value; NULLs are left out
-- alpha    what a new value weighs, between 0 and 1; all that came before weighs 1 - alpha
-- result   a DOUBLE for each row: the average so far
--
-- It does not block, so it can be called over a stream without a window:
--   SELECT host, ewma(load, 0.2) FROM Reading GROUP BY host
CREATE AGGREGATE ewma(x DOUBLE, alpha DOUBLE) : DOUBLE
{
    TABLE state(smooth DOUBLE);
    INITIALIZE: {
        INSERT INTO state VALUES (x);
        INSERT INTO RETURN VALUES (x);
    }
    ITERATE: {
        UPDATE state SET smooth = CASE WHEN smooth IS NULL THEN x ELSE alpha * x + (1 - alpha) * smooth END
            WHERE x IS NOT NULL;
        INSERT INTO RETURN SELECT smooth FROM state;
    }
}
