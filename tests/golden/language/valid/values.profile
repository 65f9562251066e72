CREATE DOMAIN "Shops" AS CLASS::OFFER(price:Decimal FROM CSS '.price', name:String FROM CSS 'h1');
CREATE SOURCE "lamp" OF OFFER AT 'https://shop.example/lamp' ZONE 'Europe/Berlin' locale 'de' ROBOTS IGNORE;
WATCH 'https://shop.example/lamp' OF OFFER LOCALE 'de' AS "cheaper" WHERE NEW.price < OLD.price;
WATCH 'https://shop.example/chair' WHERE name LIKE 'x' LOCALE 'de-CH' OF OFFER ON UPDATE;
