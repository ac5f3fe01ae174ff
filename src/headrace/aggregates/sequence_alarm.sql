-- sequence_alarm(kind, item, guard): tells where an item has no guard beside it in time (ESL, Example 18).
--
-- kind     what a row is
-- item     the kind that is watched
-- guard    the kind that has to come within the window's length before or after an item
-- result   a STRING, for an item without a guard, at the time when it leaves the window
--
-- It is for windows that rows leave by the clock. Products that leave without authorized personnel:
--   SELECT tagid, tagtime, sequence_alarm(tagtype, 'item', 'ap') OVER (RANGE 5 SECONDS PRECEDING ACTIVE EXPIRATION)
--   FROM tag_readings
CREATE WINDOW AGGREGATE sequence_alarm(kind STRING, item STRING, guard STRING) : STRING
{
    TABLE inwindow(wkind STRING, witem STRING, wguard STRING);
    INITIALIZE: ITERATE: {
        -- A guard clears the items that wait for one.
        DELETE FROM inwindow WHERE kind = guard AND wkind = witem;
        -- An item that finds a guard need not wait.
        DELETE FROM inwindow WHERE kind = item AND wkind = witem
            AND EXISTS (SELECT wkind FROM inwindow WHERE wkind = wguard);
    }
    EXPIRE: {
        INSERT INTO RETURN VALUES (kind || ' without ' || guard)
            WHERE kind = item AND NOT EXISTS (SELECT wkind FROM inwindow WHERE wkind = wguard);
    }
}
