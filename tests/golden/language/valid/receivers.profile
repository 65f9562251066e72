-- Receivers have names, and are used by them
CREATE RECEIVER "team" AS CHANNEL 'ntfy://ntfy.example/secret', MAIL 'team@example.org';
CREATE RECEIVER "hook of ""ours""" AS WEBHOOK 'https://hooks.example/x' SECRET ENV 'SECRET_A' FORM GITHUB;
CREATE PROFILE "P" DELIVER TO "team" ON TROUBLE TELL "team";
WATCH 'https://example.org/feed' AS "a" INTO "P" TELL "hook of ""ours""", MAIL 'me@example.org';
WATCH 'https://example.org/other' AS "b" INTO "P";
INSERT NOTIFICATION "c" INTO "P" SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED"
SET DELIVERY "team" SET DELIVERY MAIL 'team@example.org';
