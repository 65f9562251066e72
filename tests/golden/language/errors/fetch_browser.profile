-- a browser waits, opens pages by GET, and reads nothing but web pages
CREATE DOMAIN "Stock" AS CLASS::STOCK(left:Integer FROM JSON '$.stock');
CREATE SOURCE "waits" OF PAGE AT 'https://example.org/waits' WAIT FOR 'li';
CREATE SOURCE "selector" OF PAGE AT 'https://example.org/selector' FETCH BROWSER WAIT FOR 'li >';
CREATE SOURCE "posted" OF PAGE AT 'https://example.org/posted' FETCH BROWSER METHOD POST BODY 'a=1';
CREATE SOURCE "pushed" OF PAGE AT 'https://example.org/pushed' FETCH BROWSER WEBSUB ON;
CREATE SOURCE "stock" OF STOCK AT 'https://example.org/stock' FETCH BROWSER;
WATCH 'https://example.org/feed' FETCH BROWSER;
CREATE SOURCE "plain" OF PAGE AT 'https://example.org/plain';
WATCH 'https://example.org/plain' OF PAGE FETCH BROWSER;
