CREATE DOMAIN "Pages" AS CLASS::NEWS(title:String FROM JSON '$.title');
CREATE SOURCE "graph" OF NEWS AT 'https://api.example.org/graphql' METHOD POST BODY 'a=1' WEBSUB ON;
