CREATE RECEIVER "team" AS MAIL 'not an address', LOG 'a', LOG 'a';
CREATE RECEIVER "team" AS LOG 'b';
CREATE RECEIVER "teams of teams" AS "team";
CREATE RECEIVER "nobody";
CREATE PROFILE "P" DELIVER TO "tem" ON TROUBLE TELL "other";
WATCH 'https://example.org/feed' AS "a" INTO "P" TELL "nobody", "me@example.org";
INSERT NOTIFICATION "c" INTO "P" SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED"
SET DELIVERY TEAM;
