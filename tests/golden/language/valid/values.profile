CREATE DOMAIN "Shops" AS CLASS::OFFER(price:Decimal FROM CSS '.price', name:String FROM CSS 'h1');
CREATE SOURCE "lamp" OF OFFER AT 'https://shop.example/lamp' ZONE 'Europe/Berlin' locale 'de' ROBOTS IGNORE;
WATCH 'https://shop.example/lamp' OF OFFER LOCALE 'de' AS "cheaper" WHERE NEW.price < OLD.price;
WATCH 'https://shop.example/chair' WHERE name LIKE 'x' LOCALE 'de-CH' OF OFFER ON UPDATE;
CREATE PROFILE "P";
INSERT NOTIFICATION "numbers" INTO "P"
SET QUERY "SELECT cast(price as integer) AS euros, Number(name, 'de') + NUMBER(name), CAST(CAST(name AS STRING) AS TIMESTAMP) AS at, cast FROM CREW"
SET TRIGGER "ON INSERT TO CREW WHERE CAST(name AS DECIMAL) BETWEEN 1 AND 5 AND CAST(name AS TIMESTAMP) > '2026-01-01' AND ""CAST"" = 'x'";
CREATE DOMAIN "Films" AS CLASS::CREW EACH CSS 'li' KEY name (name:String FROM CSS 'b', cast:String FROM CSS 'i', price:Decimal FROM CSS 's');
