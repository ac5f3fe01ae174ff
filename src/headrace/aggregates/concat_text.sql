-- concat_text(x, separator): the texts of a group or a window one behind another, in the order of the rows.
--
-- x          the text; NULLs are left out
-- separator  what stands behind it where another follows
-- result     a STRING: NULL where there is no text
--
-- What leaves a window is cut off at the beginning.
--   SELECT user, concat_text(page, ' > ') OVER (PARTITION BY user ROWS 4 PRECEDING) FROM Click
CREATE AGGREGATE concat_text(x STRING, separator STRING) : STRING
{
    TABLE state(body STRING, behind STRING);
    INITIALIZE: { INSERT INTO state VALUES (x, CASE WHEN x IS NULL THEN '' ELSE coalesce(separator, '') END); }
    ITERATE: {
        UPDATE state SET body = CASE WHEN body IS NULL THEN x ELSE body || behind || x END,
            behind = coalesce(separator, '') WHERE x IS NOT NULL;
    }
    TERMINATE: { INSERT INTO RETURN SELECT body FROM state; }
};

CREATE WINDOW AGGREGATE concat_text(x STRING, separator STRING) : STRING
{
    TABLE state(n BIGINT, body STRING, behind STRING);
    TABLE inwindow(wx STRING, wseparator STRING);
    INITIALIZE: {
        INSERT INTO state VALUES (0, NULL, '');
        UPDATE state SET n = 1, body = x, behind = coalesce(separator, '') WHERE x IS NOT NULL;
        INSERT INTO RETURN VALUES (x);
    }
    ITERATE: {
        UPDATE state SET n = n + 1, body = CASE WHEN n = 0 THEN x ELSE body || behind || x END,
            behind = coalesce(separator, '') WHERE x IS NOT NULL;
        INSERT INTO RETURN SELECT body FROM state;
    }
    EXPIRE: {
        UPDATE state SET n = n - 1,
            body = CASE WHEN n > 1 THEN substring(body, length(x) + length(coalesce(separator, '')) + 1) END
            WHERE x IS NOT NULL;
        INSERT INTO RETURN SELECT body FROM state;
    }
}
