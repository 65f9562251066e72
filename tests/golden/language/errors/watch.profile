WATCH https://example.org/feed;
WATCH 'https://example.org/feed' OF FEDE WHERE title = 1 TELL INSERT;
WATCH 'https://example.org/a' WHERE COUNT(*) > 1;
WATCH 'https://example.org/b' OF PAGE ON INSERT ON UPDATE;
WATCH 'https://example.org/c';
WATCH 'https://example.org/c' WHERE title LIKE 'x' INTO "other";
WATCH 'example.org/d' AS "";
CREATE DOMAIN "built-in" AS CLASS::MINE;
