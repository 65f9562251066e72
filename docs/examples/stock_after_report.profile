-- The paper's example of two classes: a look at the stock price soon after a financial report is released.
-- Put the addresses of your own in place of these; without a source of both classes the rule waits.
CREATE DOMAIN "Markets" AS
CLASS::REPORT(
  channel.item.title:String,
  channel.item.link:URL,
  channel.item.pubDate:Timestamp)
CLASS::QUOTE(
  symbol:String FROM JSON '$.symbol',
  last:Decimal FROM JSON '$.last');

-- CREATE SOURCE "acme-reports" OF REPORT AT 'https://investors.example.com/reports.rss';
-- CREATE SOURCE "acme-quote" OF QUOTE AT 'https://quotes.example.com/ACME.json' POLITENESS SPACING 30 SECONDS;

CREATE PROFILE "Trading" AS
(DOMAIN "Markets",
LANGUAGE "SQL",
USER "u025487");

INSERT NOTIFICATION "Price_After_Report"
INTO "Trading"
SET QUERY "SELECT REPORT.title, QUOTE.symbol, QUOTE.last
FROM REPORT JOIN QUOTE ON REPORT.title LIKE '%' || QUOTE.symbol || '%'"
SET TRIGGER "ON INSERT TO REPORT
WHERE NEW.title LIKE '%report%'"
START NOW
END NEVER
SET UTILITY LINEAR(10 MINUTES)
SET LIFE WINDOW(5 MINUTES);
