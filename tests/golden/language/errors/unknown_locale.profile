CREATE DOMAIN "Pages" AS CLASS::OFFER(price:Decimal FROM CSS '.price');
CREATE SOURCE "a" OF OFFER AT 'https://example.org/a'
  LOCALE 'de_DE';
CREATE SOURCE "b" OF OFFER AT 'https://example.org/b' LOCALE 'german';
CREATE SOURCE "c" OF OFFER AT 'https://example.org/c' LOCALE 'xq-12345';
CREATE SOURCE "d" OF OFFER AT 'https://example.org/d' LOCALE '' LOCALE 'de';
WATCH 'https://example.org/e' OF OFFER LOCALE 'fra';
CREATE SOURCE "f" OF OFFER AT 'https://example.org/f' LOCALE 'de';
WATCH 'https://example.org/f' OF OFFER LOCALE 'en';
WATCH 'https://example.org/g' OF OFFER;
WATCH 'https://example.org/g' OF OFFER AS "again" LOCALE 'en';
