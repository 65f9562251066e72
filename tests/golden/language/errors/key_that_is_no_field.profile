CREATE DOMAIN "D" AS
CLASS::A EACH JSON '$.x[*]' KEY ident (id:String FROM JSON '$.id');
