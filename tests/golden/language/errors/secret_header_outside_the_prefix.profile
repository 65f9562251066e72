CREATE DOMAIN "Pages" AS CLASS::NEWS(title:String FROM JSON '$.title');
CREATE SOURCE "graph" OF NEWS AT 'https://api.example.org/graphql' HEADER 'Cookie' SECRET ENV 'HOME';
