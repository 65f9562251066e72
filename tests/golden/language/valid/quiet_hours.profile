CREATE PROFILE "home" DELIVER TO MAIL 'me@example.org' quiet during 'Mon-Fri 22:00-07:00, Sat,Sun' in 'Europe/Berlin' DIGEST DAILY AT '08:00';
CREATE PROFILE "office" DELIVER TO LOG 'office' QUIET DURING '18:00-08:00';
WATCH 'https://example.org/feed.atom' AS "both" INTO "home";
WATCH 'https://example.org/feed.atom' AS "alarm" QUIET NONE INTO "office" TELL LOG 'x';
INSERT NOTIFICATION "r" INTO "home", "office" SET QUERY "SELECT * FROM FEED" SET TRIGGER "ON INSERT TO FEED" SET QUIET NONE;
