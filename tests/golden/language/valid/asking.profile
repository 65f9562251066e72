CREATE DOMAIN "Pages" AS CLASS::NEWS(title:String FROM JSON '$.title');
CREATE SOURCE "graph" OF NEWS AT 'https://api.example.org/graphql'
  HEADER 'Cookie' SECRET ENV 'SECRET_COOKIE' header 'Accept-Language' 'de'
  method post body '{"query": "{ news { title } }"}';
CREATE SOURCE "nothing said" OF NEWS AT 'https://api.example.org/news' METHOD POST;
