-- Every third item of the kernel's release feed.
CREATE DOMAIN "RSS_Feeds" AS
CLASS::RSS(
  channel.item.title:String,
  channel.item.link:URL,
  channel.item.description:String,
  channel.item.pubDate:Timestamp);

CREATE SOURCE "kernel-releases" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml'
  POLITENESS 12 PROBES PER HOUR, SPACING 2 MINUTES
  EXPECT 3 PER WEEK;

CREATE PROFILE "RSS_Monitoring" AS
(DOMAIN "RSS_Feeds",
LANGUAGE "SQL",
USER "u025487");

INSERT NOTIFICATION "Num_Update_Watch"
INTO "RSS_Monitoring"
SET QUERY "SELECT channel.item.title, channel.item.link
FROM RSS"
SET TRIGGER "ON INSERT TO RSS
WHEN COUNT(*) % 3 = 0"
START NOW
END NEVER
SET UTILITY STRICT;
