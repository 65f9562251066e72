CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp);
CREATE SOURCE "kernel-releases" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml'
  POLITENESS 12 PROBES PER HOUR, SPACING 2 MINUTES EXPECT 3 PER DAY;
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1")
DELIVER TO WEBHOOK 'https://example.org/hook' SECRET ENV 'SECRET_HOOK';
INSERT NOTIFICATION "Stable kernels" INTO "Reading"
SET QUERY "SELECT title, link FROM RSS WHERE title LIKE '%stable%' ORDER BY pubDate DESC LIMIT 10"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) FILTER (WHERE title LIKE '%stable%') % 2 = 0 OR title REGEXP 'rc[0-9]'"
START NOW END NEVER
SET UTILITY STRICT
SET LIFE WINDOW(30 MINUTES)
SET POLICY FBSUP;
