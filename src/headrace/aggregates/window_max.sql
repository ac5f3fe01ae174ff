-- window_max(x): the largest value of a window (ESL, Examples 13 and 16).
--
-- x        the value; NULLs are left out
-- result   a DOUBLE: the largest value, NULL where there is none
--
-- A row that comes deletes the rows of the window that are no larger: they cannot be the largest of any later window.
-- So the oldest row is the largest, and few rows are kept. With ACTIVE EXPIRATION, a row that leaves tells the largest
-- of those that stay. It is ALGEBRAIC: with SLIDE, panes are computed first, and the window goes over their results.
--   SELECT item, window_max(price) OVER (PARTITION BY item RANGE 1 HOUR PRECEDING SLIDE 10 MINUTES) FROM Bid
CREATE ALGEBRAIC AGGREGATE window_max(x DOUBLE) : DOUBLE
{
    TABLE state(best DOUBLE);
    INITIALIZE: { INSERT INTO state VALUES (x); }
    ITERATE: { UPDATE state SET best = greatest(best, x); }
    TERMINATE: { INSERT INTO RETURN SELECT best FROM state; }
};

CREATE ALGEBRAIC WINDOW AGGREGATE window_max(x DOUBLE) : DOUBLE
{
    TABLE inwindow(wx DOUBLE);
    INITIALIZE: ITERATE: {
        DELETE FROM inwindow WHERE wx <= x;
        DELETE FROM inwindow WHERE wx IS NULL;
        INSERT INTO RETURN VALUES (oldest());
    }
    EXPIRE: { INSERT INTO RETURN SELECT max(wx) FROM inwindow WHERE wx < oldest(); }
}
