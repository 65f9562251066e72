WATCH 'https://example.org/a' OF PAGE HOLDING 'Welcome';
WATCH 'https://example.org/b' OF SITE HOLDING ' ';
WATCH 'https://example.org/c' OF SITE MAINTENANCE DURING '2-4';
WATCH 'https://example.org/d' OF SITE MAINTENANCE DURING 'Mon-Sun';
WATCH 'https://example.org/e' OF SITE FETCH BROWSER;
WATCH 'https://example.org/f' OF SITE ON UPDATE;
WATCH 'https://example.org/g' OF SITE WITHOUT 'x';
WATCH 'https://example.org/h' OF SITE CERTIFICATE 0 DAYS;
CREATE SOURCE "feed" OF FEED AT 'https://example.org/i' DOMAIN NONE;
