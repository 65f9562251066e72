CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String, channel.item.link:URL, channel.item.pubDate:Timestamp, channel.ttl:Integer);
CREATE SOURCE "kernel" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml';
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1")
DELIVER TO LOG 'reading'
DIGEST daily AT '08:00' IN 'Europe/Berlin' AT MOST 20 ITEMS;
INSERT NOTIFICATION "As the profile says" INTO "Reading"
SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS";
INSERT NOTIFICATION "Weekly" INTO "Reading"
SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
SET DIGEST WEEKLY ON MONDAY AT '8:00';
INSERT NOTIFICATION "At once" INTO "Reading"
SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
SET DIGEST NONE;
