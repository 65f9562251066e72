-- Everything the language has, for tools that only read it.
create domain "Feeds" as class::RSS(channel.description:String, channel.item.title:String, channel.item.link:URL,
  channel.item.pubDate:Timestamp, channel.ttl:Integer)
  class::"from"(channel.item.title:String);
CREATE DOMAIN "Pages" AS
CLASS::QUOTE(symbol:String FROM JSON '$.symbol', last:Decimal FROM JSON '$.last', open:Boolean FROM JSON '$.open'),
CLASS::NOTICE(heading:String FROM CSS 'main h1', body:String FROM XPATH '//main'), CLASS::PAGE,
CLASS::QUAKE EACH JSON '$.features[*]' KEY ID (id:String FROM JSON '$.id', mag:Decimal FROM JSON '$.properties.mag')
CREATE DOMAIN "More" AS CLASS::QUOTE(symbol:String FROM CSS 'b');
CREATE SOURCE "kernel-releases" OF RSS AT 'https://www.kernel.org/feeds/kdist.xml'
  POLITENESS 12 PROBES PER HOUR, SPACING 2 MINUTES EXPECT 3 PER DAY ZONE 'Europe/Berlin' FRESHNESS IGNORE
  HEADER 'Accept-Language' 'de' HEADER 'X-It''s' 'yes' AUTH BEARER SECRET ENV 'SECRET_TOKEN' WEBSUB OFF ROBOTS OBEY;
CREATE SOURCE plain OF rss AT 'http://example.org/feed' POLITENESS SPACING 30 AUTH BASIC 'me' SECRET FILE 'password';
CREATE SOURCE quotes OF "Pages".QUOTE AT 'https://example.org/quotes' POLITENESS 1 PROBE PER 2 HOURS EXPECT 0.5 ITEMS PER WEEK;
CREATE SOURCE quakes OF QUAKE AT 'https://example.org/quakes'; -- all of them
CREATE PROFILE "Reading" AS (DOMAINS "Feeds", "Pages", LANGUAGE "sql", USERS "u1", "u2", USER u3)
DELIVER TO WEBHOOK 'https://example.org/hook' SECRET ENV 'SECRET_HOOK', MAIL 'a@example.org'
DELIVER TO CHANNEL 'ntfy://topic';
CREATE PROFILE Second AS (DOMAIN "Feeds");
INSERT NOTIFICATION "Every third" INTO "Reading", Second
FROM SOURCES "plain", "kernel-releases"
SET QUERY "SELECT DISTINCT LOWER(TITLE) AS ""order"", link, CASE (-ttl) WHEN -1 THEN 'a' WHEN 2 THEN 'b' END, CASE WHEN ttl > 1 THEN ttl ELSE 0 END, -ttl * (2 + 3) % 7 /* why not */
FROM RSS AS r OVER 7 DAYS
WHERE title LIKE '%it''s%' ESCAPE '!' AND title NOT ILIKE 'A_%' AND NOT (link IS NULL OR pubDate >= '2026-01-01') AND r.ttl BETWEEN 1 AND 2 + 3
ORDER BY 1 DESC NULLS LAST, link LIMIT 10"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) FILTER (WHERE NEW.title REGEXP '^v[0-9]+') % 3 = 0 -- every third
  AND COUNT(DISTINCT link) OVER 24 HOURS > 2 OR SUM(ttl) ACROSS SOURCES != 1.50"
END NOW + "4 weeks" START '2026-01-01T00:00:00Z'
SET DIGEST EVERY 1 HOUR AT MOST 1 ITEM
SET DELIVERY WEBHOOK 'https://example.org/a' SECRET FILE 'hook' FORM CLOUDEVENTS, MAIL 'b@example.org'
SET POLICY DOE(28 PROBES PER 4 WEEKS, SPACING 10 MINUTES)
SET IMPORTANCE 3 DURING 'Mon-Fri 09:00-18:00' IN 'Europe/Berlin', 0.5 DURING 'Sat,Sun', 1 OTHERWISE
SET LIFE WINDOW(10) SET UTILITY EXPONENTIAL(HALF-LIFE 10 MINUTES)
INSERT NOTIFICATION "Strong quakes" INTO "Reading"
SET QUERY "SELECT q.symbol, MAX(last) AS top, COUNT(*) FROM QUOTE AS q LEFT JOIN RSS ON q.symbol = RSS.title
WHERE q.symbol = NEW.id AND OLD.mag < NEW.mag GROUP BY q.symbol HAVING COUNT(*) > 1"
SET TRIGGER "ON UPDATE TO QUAKE WHEN MAG NOT IN (1, 2.0) AND OLD.mag IS NOT NULL"
START NOW - "1 day" END NEVER
SET UTILITY LINEAR(30 MINUTES) SET POLICY UNIFORM(15 MINUTES) SET LIFE OVERWRITE SET DELIVERY NONE;
/* the end */
