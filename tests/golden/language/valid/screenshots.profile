CREATE DOMAIN "Shop" AS CLASS::OFFER EACH CSS 'li.offer' KEY title (title:String FROM CSS 'a');
CREATE SOURCE "offers" OF OFFER AT 'https://shop.example/offers' FETCH BROWSER;
CREATE PROFILE "Shopping" AS (DOMAIN "Shop", LANGUAGE "SQL", USER "u1");
INSERT NOTIFICATION "New offers" INTO "Shopping"
SET QUERY "SELECT title FROM OFFER" SET TRIGGER "ON INSERT TO OFFER" set screenshot SET MESSAGE 'a new offer';
watch 'https://shop.example/front' of page fetch browser on update screenshot tell log 'front';
