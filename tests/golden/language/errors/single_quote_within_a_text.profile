WATCH 'https://a.example/feed' AS "first" WHERE title ILIKE '%it's%' TELL MAIL 'a@b.example';
WATCH 'https://b.example/feed' AS "second" WHERE title = 'don't' OR title = 'won't';
