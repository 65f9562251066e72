WATCH 'https://a.example/feed' AS "first"
  WHERE title ILIKE '%its%
  TELL MAIL 'a@b.example';
WATCH 'https://b.example/feed AS "second" WHERE title ILIKE '%its%';
WATCH 'https://c.example/feed' AS "third" TELL MAIL 'a@b.example;
WATCH 'https://d.example/feed' AS "fourth" WHERE title = 'a'AND title<>'b'OR title = 'c';
