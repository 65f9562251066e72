-- One line for one feed.
WATCH 'https://example.org/releases.atom' WHERE title NOT LIKE '%rc%' WITHIN 10 MINUTES TELL MAIL 'me@example.org', LOG 'all' TELL CHANNEL 'tgram://x' MESSAGE '{title} {link}'
WATCH 'https://example.org/releases.atom' AS "candidates" DIGEST NONE WHERE title LIKE '%rc%' INTO "testing"
watch 'https://example.org/terms/' of page
CREATE DOMAIN "Markets" AS CLASS::QUOTE(last:Decimal FROM JSON '$.last')
CLASS::PAGE(title:String FROM CSS 'h1');
CREATE SOURCE "quote" OF QUOTE AT 'https://api.example/quote';
WATCH 'https://api.example/quote' OF QUOTE WHERE NEW.last < OLD.last AS "cheaper";
WATCH 'https://example.org/jobs' WITHOUT 'intern', '100%' WHERE title LIKE '%python%' OR title IS NULL WITHOUT 'unpaid';
WATCH 'https://example.org/page' OF PAGE ON DELETE DIGEST WEEKLY ON MONDAY AT '08:00' IN 'Europe/Berlin' AT MOST 20 ITEMS;
CREATE PROFILE "testing" DELIVER TO LOG 'testing';
INSERT NOTIFICATION "plain" INTO "testing" SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED" WITHIN 1 HOUR SET MESSAGE '{title}';
WATCH 'https://example.org/terms/' OF PAGE EVERY 5 MINUTES AS "often";
WATCH 'https://example.org/prices' OF "built-in".PAGE IGNORE 'updated', '/^\d+ views$/' OVER 5 WORDS WITHOUT 'cookie';
CREATE SOURCE "board" OF "built-in".PAGE AT 'https://example.org/board' IGNORE 'seen by';
