-- gap_groups(tag, at, gap): rows that follow each other closely get the same group number (ESL, Example 17).
--
-- tag      whatever is to be told beside the number, of any type
-- at       the time of the row
-- gap      seconds: where a row comes later than that after the one before it, a new group begins
-- result   (tag, group_number BIGINT) for each row; groups are numbered from 1
--
-- It does not block, so it can be called over a stream without a window. Products packed into one case:
--   SELECT gap_groups(tagid, tagtime, 2) FROM tag_readings
CREATE AGGREGATE gap_groups(tag, at TIMESTAMP, gap DOUBLE) : (tag, group_number BIGINT)
{
    TABLE state(last TIMESTAMP, number BIGINT);
    INITIALIZE: {
        INSERT INTO state VALUES (at, 1);
        INSERT INTO RETURN VALUES (tag, 1);
    }
    ITERATE: {
        UPDATE state SET number = number + 1 WHERE at - last > gap;
        UPDATE state SET last = at WHERE at IS NOT NULL;
        INSERT INTO RETURN SELECT tag, number FROM state;
    }
}
