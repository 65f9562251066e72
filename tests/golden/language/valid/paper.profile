CREATE DOMAIN "RSS_Feeds" AS
CLASS::RSS(channel.item.title:String,
channel.item.description:String,
channel.item.pubDate:String);
CREATE PROFILE "RSS_Monitoring" AS
(DOMAIN "RSS_Feeds",
LANGUAGE "SQL",
USER "u025487");
INSERT NOTIFICATION "Num_Update_Watch"
INTO "RSS_Monitoring"
SET QUERY "SELECT channel.item.title,channel.item.description
FROM RSS"
SET TRIGGER "ON INSERT TO RSS
WHEN COUNT(*) % 3 =0"
START NOW
END "30 days" + NOW
SET UTILITY STRICT
