CREATE DOMAIN "Feeds" AS
CLASS::RSS(channel.item.title:String)
CLASS::ROW EACH CSS 'tr' KEY id (id:String FROM CSS 'td', source:String FROM CSS 'td.source');
CREATE SOURCE "kernel" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml';
CREATE SOURCE "table" OF ROW AT 'https://www.example.org/table';
CREATE PROFILE "Reading" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u1");
INSERT NOTIFICATION "All together" INTO "Reading"
SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS" set limit 3 per 2 hours;
INSERT NOTIFICATION "Each source" INTO "Reading"
SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS" SET LIMIT 1 PER DAY PER SOURCE;
INSERT NOTIFICATION "Each title" INTO "Reading"
SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS" SET LIMIT 1 PER DAY PER title;
INSERT NOTIFICATION "Each value of a field called source" INTO "Reading"
SET QUERY "SELECT id FROM ROW" SET TRIGGER "ON INSERT TO ROW" SET LIMIT 1 PER DAY PER "source";
