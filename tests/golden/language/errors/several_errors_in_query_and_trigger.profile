CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp, channel.ttl:Integer);
CREATE SOURCE "kernel" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml';
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1");
INSERT NOTIFICATION "Watch" INTO "Reading"
SET QUERY "SELECT title, , link FROM RSS
WHERE COUNT(* FILTER (WHERE title = 'a') > > 1
GROUP title HAVING COUNT(*) > 1 1
ORDER BY link LIMIT x"
SET TRIGGER "ON INSERTS TO RSS
WHERE title LIKEE 'x' AND CASE WHEN ttl = 1 THEN TRUE END
WHEN COUNT(*) %% 3"
START NOW END NEVER SET UTILITY STRICT;
