CREATE DOMAIN "x" AS (a:String);
