CREATE PROFILE "default" DELIVER TO MAIL 'all@example.org' DIGEST DAILY AT '08:00' QUIET DURING '22:00-07:00' ON TROUBLE TELL MAIL 'me@example.org';
WATCH 'https://example.org' OF SITE;
watch 'https://shop.example.org/' of site holding 'Welcome' certificate 21 days domain none maintenance during 'Sun 02:00-04:00' in 'Europe/Berlin' on health after 3 probes within 5 minutes tell log 'x';
WATCH 'https://example.org/feed';
CREATE SOURCE "api" OF SITE AT 'https://api.example.org/health' POLITENESS SPACING 10 SECONDS CERTIFICATE NONE DOMAIN 60 DAYS MAINTENANCE DURING 'Sat';
INSERT NOTIFICATION "all sites" INTO "default" SET QUERY "SELECT * FROM SOURCE" SET TRIGGER "ON HEALTH TO SOURCE" WITHIN 40 SECONDS SET QUIET NONE;
WATCH 'tcp://db.example.org:5432' OF SITE AS "database" HOLDING 'SSH-2.0';
WATCH 'tls://mail.example.org:993' OF SITE CERTIFICATE 21 DAYS;
WATCH 'https://blog.example.org' OF SITE INTO "Home", Work AS "blog";
